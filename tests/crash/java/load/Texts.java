import java.util.Random;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.TextMessage;

/** Message bodies: the id, the length and that many characters which follow from the id, so that damage shows. */
final class Texts {
    private Texts() {}

    /** Mostly small; one in fifty needs several writes to a socket or file. */
    static String make(String id, Random random) {
        return make(id, random.nextInt(50) == 0 ? random.nextInt(100_000) : random.nextInt(400));
    }

    static String idOf(Message message) throws JMSException {
        String text = ((TextMessage) message).getText();
        String[] parts = text.split("\\|", 3);
        if (parts.length != 3 || !text.equals(make(parts[0], Integer.parseInt(parts[1])))) {
            throw new IllegalStateException("damaged body: " + text.substring(0, Math.min(100, text.length())));
        }
        return parts[0];
    }

    private static String make(String id, int length) {
        return id + "|" + length + "|" + (id + ".").repeat(length / id.length() + 1).substring(0, length);
    }
}
