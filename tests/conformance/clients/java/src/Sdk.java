import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;

/**
 * Java's standard HTTP clients, configured by JAVA_TOOL_OPTIONS alone, reading provider streams.
 *
 * <p>Reads one JSON request a line, {"case": "openai/stream", "client": "urlconnection" | "http1" | "http2",
 * "timeout": 5}, and answers each with one line: the outcome, the error, and what was read before the end.
 */
public final class Sdk {
    private static final String PROMPT = "Name the parts of a flower, please: petals, sepals, stamens, pistil.";
    private static final Map<String, String> URLS = Map.of(
        "openai", "https://api.openai.com/v1/chat/completions",
        "anthropic", "https://api.anthropic.com/v1/messages");
    private static final Map<String, String> BODIES = Map.of(
        "openai", "{\"model\":\"gpt-4o-mini\",\"stream\":%b,\"messages\":[{\"role\":\"user\",\"content\":\"" + PROMPT + "\"}]}",
        "anthropic", "{\"model\":\"claude-sonnet-4-5\",\"max_tokens\":256,\"stream\":%b,"
            + "\"messages\":[{\"role\":\"user\",\"content\":\"" + PROMPT + "\"}]}");
    private static final Map<String, String> HEADERS = Map.of(
        "content-type", "application/json",
        "authorization", "Bearer " + System.getenv("OPENAI_API_KEY"),
        "x-api-key", System.getenv("ANTHROPIC_API_KEY"),
        "anthropic-version", "2023-06-01");
    private static final Map<String, HttpClient> CLIENTS = Map.of(
        "http1", HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build(),
        "http2", HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).build());

    private static final class Seen {
        String outcome = "ok";
        String error;
        String message;
        String proto;
        int status;
        int events;
        StringBuffer read = new StringBuffer();
        String text;
    }

    private Sdk() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        ExecutorService worker = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject asked = JsonParser.parseString(line).getAsJsonObject();
            double patience = asked.has("patience") ? asked.get("patience").getAsDouble() : 60;
            Seen seen = new Seen();
            InputStream[] open = new InputStream[1];
            Future<?> call = worker.submit(() -> {
                run(asked, seen, open);
                return null;
            });
            try {
                call.get((long) (patience * 1000), TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                // The timeout of java.net.http covers the head alone: a silent body is waited for.
                seen.outcome = "waits";
                if (open[0] != null) {
                    open[0].close();
                }
            } catch (ExecutionException e) {
                Throwable cause = e.getCause();
                seen.outcome = "error";
                seen.error = kind(cause);
                seen.message = cause.toString();
            }
            seen.text = seen.read.toString();
            seen.read = null;
            System.out.println(new Gson().toJson(seen));
        }
    }

    private static void run(JsonObject asked, Seen seen, InputStream[] open) throws Exception {
        String[] parts = asked.get("case").getAsString().split("/");
        boolean stream = parts[1].equals("stream");
        int timeout = (int) (asked.get("timeout").getAsDouble() * 1000);
        byte[] body = String.format(BODIES.get(parts[0]), stream).getBytes(StandardCharsets.UTF_8);
        URI url = URI.create(URLS.get(parts[0]));
        String client = asked.get("client").getAsString();
        InputStream input;
        if (client.equals("urlconnection")) {
            HttpURLConnection connection = (HttpURLConnection) url.toURL().openConnection();
            connection.setConnectTimeout(timeout);
            connection.setReadTimeout(timeout);
            connection.setDoOutput(true);
            HEADERS.forEach(connection::setRequestProperty);
            connection.getOutputStream().write(body);
            seen.status = connection.getResponseCode();
            seen.proto = "HTTP/1.1";
            input = seen.status < 400 ? connection.getInputStream() : connection.getErrorStream();
        } else {
            HttpRequest.Builder request = HttpRequest.newBuilder(url)
                .timeout(Duration.ofMillis(timeout))
                .POST(HttpRequest.BodyPublishers.ofByteArray(body));
            HEADERS.forEach(request::header);
            HttpResponse<InputStream> response =
                CLIENTS.get(client).send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
            seen.status = response.statusCode();
            seen.proto = response.version() == HttpClient.Version.HTTP_2 ? "HTTP/2.0" : "HTTP/1.1";
            input = response.body();
        }
        open[0] = input;
        try (BufferedReader reader = new BufferedReader(new InputStreamReader(input, StandardCharsets.UTF_8))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                seen.read.append(line).append('\n');
                if (line.startsWith("data:")) {
                    seen.events++;
                }
            }
        }
    }

    private static String kind(Throwable error) {
        if (error instanceof SocketTimeoutException || error instanceof HttpTimeoutException) {
            return "Timeout";
        }
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SocketException && String.valueOf(cause.getMessage()).contains("reset")) {
                return "Reset";
            }
            if (String.valueOf(cause.getMessage()).contains("RST_STREAM")) {
                return "StreamReset";
            }
        }
        return error instanceof IOException ? "IOException" : error.getClass().getName();
    }
}
