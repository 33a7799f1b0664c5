import java.net.HttpURLConnection;
import java.net.URI;

/** Asks for the URLs in its arguments with Java's standard client, configured by JAVA_TOOL_OPTIONS alone. */
public class Fetch {
    public static void main(String[] urls) {
        for (String url : urls) {
            try {
                HttpURLConnection connection = (HttpURLConnection) URI.create(url).toURL().openConnection();
                connection.setConnectTimeout(20_000);
                connection.setReadTimeout(20_000);
                System.out.println("{\"outcome\": \"ok\", \"status\": " + connection.getResponseCode() + "}");
            } catch (Exception error) {
                String message = error.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ");
                System.out.println("{\"outcome\": \"error\", \"message\": \"" + message + "\"}");
            }
        }
    }
}
