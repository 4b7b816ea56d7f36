import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Arrays;
import javax.jms.Connection;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Load from the real client, as lines on standard input ask for it; each is answered by a line of JSON.
 *
 * <pre>
 *   open KEY=VALUE …    connects for one round of {@link Work}
 *   run                 does it
 *   close               closes the connections and verifies what came
 *   left URI QUEUE      tells whether the queue holds a message
 * </pre>
 *
 * <p>One JVM serves all brokers of a comparison, so the client is equally warm for each.
 */
public final class LoadGenerator {
    private Round round;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        LoadGenerator generator = new LoadGenerator();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = generator.answer(line.split(" "));
            } catch (Exception error) {
                error.printStackTrace();
                answer = "{\"error\": \"" + error.toString().replaceAll("[\\\\\"\\p{Cntrl}]", " ") + "\"}";
            }
            out.println(answer);
            out.flush();
        }
        System.exit(0); // threads of a failed round may linger
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> {
                round = new Round(new Work(Arrays.copyOfRange(words, 1, words.length)));
                return "{}";
            }
            case "run" -> {
                return round.run();
            }
            case "close" -> {
                round.close();
                round = null;
                return "{}";
            }
            case "left" -> {
                return "{\"left\": " + left(words[1], words[2]) + "}";
            }
            default -> throw new IllegalArgumentException("no such request: " + words[0]);
        }
    }

    /** A browser disturbs nothing, and comes to an end when the broker has shown all. */
    private static boolean left(String uri, String queue) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(uri).createConnection();
        try {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            return session.createBrowser(session.createQueue(queue)).getEnumeration().hasMoreElements();
        } finally {
            connection.close();
        }
    }
}
