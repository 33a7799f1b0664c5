import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Optional;
import java.util.UUID;
import java.util.regex.Pattern;

/** A program that streams from a language model must notice when the stream breaks. In a project this is a JUnit test. */
public class ResilienceTest {
    static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    static final String API = Optional.ofNullable(System.getenv("ACONITE_URL")).orElse("http://127.0.0.1:8474") + "/v1";
    /** A name of its own: test runs can share a server. */
    static final String NAME = "java-" + UUID.randomUUID();
    static final String TOKEN = Optional.ofNullable(System.getenv("ACONITE_TOKEN")).orElse("");

    static String aconite(String method, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(API + path)).header("authorization", "Bearer " + TOKEN);
        try {
            var answer = HTTP.send(request.method(method, BodyPublishers.ofString(body)).build(), BodyHandlers.ofString());
            check(answer.statusCode() < 300, answer.body());
            return answer.body();
        } catch (ConnectException refused) {
            throw new AssertionError("no Aconite server at " + API + ": start one with `aconite serve`, or set ACONITE_URL", refused);
        }
    }

    /** The program under test. */
    static String stream(String address) throws Exception {
        var body = "{\"model\":\"gpt-4o\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}";
        var request = HttpRequest.newBuilder(URI.create("http://" + address + "/v1/chat/completions"))
            .header("content-type", "application/json").header("authorization", "Bearer any")
            .POST(BodyPublishers.ofString(body)).build();
        return HTTP.send(request, BodyHandlers.ofString()).body();
    }

    static void check(boolean condition, String message) {
        if (!condition) throw new AssertionError(message);
    }

    public static void main(String[] arguments) throws Exception {
        var made = aconite("POST", "/proxies",
            "{\"name\":\"" + NAME + "\",\"listen\":\"127.0.0.1:0\",\"upstream\":\"sim://openai?tps=1000\"}");
        var listen = Pattern.compile("\"listen\":\"([^\"]+)\"").matcher(made);
        check(listen.find(), made);
        try {
            check(stream(listen.group(1)).endsWith("data: [DONE]\n\n"), "not healthy");
            for (var how : new String[] {"fin", "rst"}) {
                aconite("POST", "/proxies/" + NAME + "/toxics",
                    "{\"type\":\"cut\",\"attributes\":{\"at\":{\"events\":3},\"how\":\"" + how + "\"}}");
                try {
                    throw new AssertionError(how + ": no error, but " + stream(listen.group(1)));
                } catch (IOException noticed) {
                    System.out.println(how + ": " + noticed);
                }
                var journal = aconite("GET", "/exchanges?proxy=" + NAME + "&wait=1", "");
                check(journal.lastIndexOf("\"struck\":true") > journal.lastIndexOf("\"struck\":false"), "no toxic was applied");
                aconite("DELETE", "/proxies/" + NAME + "/toxics", "");
            }
        } finally {
            aconite("DELETE", "/proxies/" + NAME, "");
        }
    }
}
