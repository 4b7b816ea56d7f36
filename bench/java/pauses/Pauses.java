import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Sends persistent messages of 1 KiB, each when the one before is answered, and keeps the longest pause between two
 * answers. "reset" on standard input begins anew, "longest" prints it in seconds with the number of answers.
 */
final class Pauses {
    private static final int BODY_BYTES = 1024;

    private static double longest;
    private static long answers;
    private static long answeredAt;

    private Pauses() {}

    public static void main(String[] arguments) throws Exception {
        Thread sender = new Thread(() -> send(arguments[0], arguments[1]));
        sender.setDaemon(true);
        sender.start();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        String line;
        while ((line = input.readLine()) != null) {
            synchronized (Pauses.class) {
                if (line.equals("reset")) {
                    longest = 0;
                    answers = 0;
                }
                System.out.println("{\"longest\": " + longest + ", \"answers\": " + answers + "}");
            }
        }
    }

    private static void send(String uri, String queue) {
        try {
            Connection connection = new ActiveMQConnectionFactory(uri).createConnection();
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            producer.setDeliveryMode(DeliveryMode.PERSISTENT);
            TextMessage message = session.createTextMessage("x".repeat(BODY_BYTES));
            while (true) {
                producer.send(message);
                answered();
            }
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private static synchronized void answered() {
        long now = System.nanoTime();
        if (answers > 0) {
            longest = Math.max(longest, (now - answeredAt) / 1e9);
        }
        answeredAt = now;
        answers++;
    }
}
