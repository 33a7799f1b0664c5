import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.google.gson.Gson;
import com.google.gson.JsonParser;

import eu.rekawek.toxiproxy.Proxy;
import eu.rekawek.toxiproxy.ToxiproxyClient;
import eu.rekawek.toxiproxy.model.Toxic;
import eu.rekawek.toxiproxy.model.ToxicDirection;
import eu.rekawek.toxiproxy.model.ToxicList;
import eu.rekawek.toxiproxy.model.toxic.Latency;

/**
 * toxiproxy-java, unmodified, against the admin API: ToxiproxyCheck HOST PORT UPSTREAM.
 *
 * <p>UPSTREAM echoes. Prints one JSON line for each check: {"check", "ok", "message"}.
 */
public final class ToxiproxyCheck {
    private interface Check {
        void run() throws Exception;
    }

    private interface Adder {
        Toxic add(ToxicList toxics, String name, ToxicDirection stream) throws IOException;
    }

    private static ToxiproxyClient client;
    private static String host;
    private static int port;
    private static String upstream;

    private ToxiproxyCheck() {}

    public static void main(String[] arguments) {
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
        client = new ToxiproxyClient(host, port);
        upstream = arguments[2];
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("version", () ->
            equal(JsonParser.parseString(client.version()).getAsJsonObject().get("version").getAsString(), "2.12.0"));
        checks.put("create", ToxiproxyCheck::create);
        checks.put("create twice", () -> fails(() -> client.createProxy("java", "127.0.0.1:0", upstream), "409"));
        checks.put("missing proxy", () -> equal(client.getProxyOrNull("none"), null));
        checks.put("list", ToxiproxyCheck::list);
        Map<String, Adder> toxics = new LinkedHashMap<>();
        toxics.put("latency", (list, name, stream) -> list.latency(name, stream, 150).setJitter(5));
        toxics.put("bandwidth", (list, name, stream) -> list.bandwidth(name, stream, 1000));
        toxics.put("slow_close", (list, name, stream) -> list.slowClose(name, stream, 5));
        toxics.put("timeout", (list, name, stream) -> list.timeout(name, stream, 60000));
        toxics.put("reset_peer", (list, name, stream) -> list.resetPeer(name, stream, 60000));
        toxics.put("slicer", (list, name, stream) -> list.slicer(name, stream, 10, 10).setSizeVariation(5));
        toxics.put("limit_data", (list, name, stream) -> list.limitData(name, stream, 1000000));
        toxics.forEach((kind, add) -> checks.put("toxic " + kind, () -> toxic(kind, add)));
        checks.put("latency added, updated, removed", ToxiproxyCheck::latency);
        checks.put("update proxy", ToxiproxyCheck::update);
        checks.put("reset", ToxiproxyCheck::reset);
        checks.put("delete", ToxiproxyCheck::delete);
        checks.forEach((name, check) -> {
            String message = "";
            boolean ok = true;
            try {
                check.run();
            } catch (Exception | AssertionError e) {
                ok = false;
                message = e.toString();
            }
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("check", name);
            line.put("ok", ok);
            line.put("message", message);
            System.out.println(new Gson().toJson(line));
        });
    }

    private static void create() throws Exception {
        Proxy proxy = client.createProxy("java", "127.0.0.1:0", upstream);
        equal(proxy.getName() + " " + proxy.getUpstream() + " " + proxy.isEnabled(), "java " + upstream + " true");
        equal(proxy.getListen().endsWith(":0"), false);
        echo(proxy);
    }

    private static void list() throws Exception {
        client.createProxy("java-two", "127.0.0.1:0", upstream);
        // A client re-reads on reset() every proxy that it ever saw: one that is deleted belongs to another client.
        ToxiproxyClient other = new ToxiproxyClient(host, port);
        other.createProxy("host:6379", "127.0.0.1:0", upstream);
        // The list comes in the order of the names; a name may hold a colon.
        List<Proxy> all = other.getProxies();
        equal(all.get(0).getName() + " " + all.get(1).getName() + " " + all.get(2).getName(), "host:6379 java java-two");
        Proxy colon = other.getProxy("host:6379");
        echo(colon);
        colon.delete();
    }

    private static void toxic(String kind, Adder adder) throws Exception {
        Proxy proxy = client.getProxy("java");
        for (ToxicDirection stream : ToxicDirection.values()) {
            Toxic made = adder.add(proxy.toxics(), kind + "_" + stream, stream);
            made.setToxicity(0.5f);
            equal(proxy.toxics().getAll().size(), 1);
            Toxic read = proxy.toxics().get(made.getName());
            equal(read.getClass(), made.getClass());
            equal(read.getStream(), stream);
            equal(read.getToxicity(), 0.5f);
            read.remove();
            equal(proxy.toxics().getAll().isEmpty(), true);
        }
    }

    private static void latency() throws Exception {
        Proxy proxy = client.getProxy("java");
        Latency latency = proxy.toxics().latency("slow", ToxicDirection.DOWNSTREAM, 1000);
        within(echo(proxy), 1000, 10_000);
        latency.setLatency(1500);
        equal(proxy.toxics().get("slow", Latency.class).getLatency(), 1500L);
        within(echo(proxy), 1500, 10_000);
        latency.remove();
        within(echo(proxy), 0, 999);
    }

    private static void update() throws Exception {
        Proxy proxy = client.getProxy("java");
        String listen = proxy.getListen();
        proxy.disable();
        refused(listen);
        equal(client.getProxy("java").isEnabled(), false);
        proxy.enable();
        equal(proxy.getListen(), listen);
        echo(proxy);
        proxy.setUpstream("127.0.0.1:1");
        equal(client.getProxy("java").getUpstream(), "127.0.0.1:1");
        proxy.setUpstream(upstream);
        echo(proxy);
    }

    private static void reset() throws Exception {
        Proxy proxy = client.getProxy("java");
        proxy.toxics().latency("slow", ToxicDirection.UPSTREAM, 60000);
        proxy.disable();
        client.reset();
        Proxy again = client.getProxy("java");
        equal(again.isEnabled(), true);
        equal(again.toxics().getAll().isEmpty(), true);
        echo(again);
    }

    private static void delete() throws Exception {
        for (Proxy proxy : client.getProxies()) {
            proxy.delete();
            refused(proxy.getListen());
        }
        equal(client.getProxies().isEmpty(), true);
    }

    /** The milliseconds that a round trip through the proxy takes. */
    private static long echo(Proxy proxy) throws IOException {
        try (Socket socket = connect(proxy.getListen())) {
            socket.setSoTimeout(10_000);
            long started = System.nanoTime();
            socket.getOutputStream().write("petal".getBytes(StandardCharsets.UTF_8));
            InputStream input = socket.getInputStream();
            equal(new String(input.readNBytes(5), StandardCharsets.UTF_8), "petal");
            return (System.nanoTime() - started) / 1_000_000;
        }
    }

    private static void refused(String listen) throws IOException {
        try {
            connect(listen).close();
        } catch (ConnectException expected) {
            return;
        }
        throw new AssertionError(listen + " still accepts");
    }

    private static Socket connect(String listen) throws IOException {
        int colon = listen.lastIndexOf(':');
        Socket socket = new Socket();
        socket.connect(new InetSocketAddress(listen.substring(0, colon), Integer.parseInt(listen.substring(colon + 1))), 5_000);
        return socket;
    }

    private static void fails(Check check, String part) throws Exception {
        try {
            check.run();
        } catch (IOException e) {
            if (!String.valueOf(e.getMessage()).contains(part)) {
                throw new AssertionError("the error does not say " + part + ": " + e);
            }
            return;
        }
        throw new AssertionError("no error");
    }

    private static void within(long found, long least, long most) {
        if (found < least || found > most) {
            throw new AssertionError(found + " ms, not " + least + " to " + most);
        }
    }

    private static void equal(Object found, Object wanted) {
        if (!java.util.Objects.equals(found, wanted)) {
            throw new AssertionError(found + " instead of " + wanted);
        }
    }
}
