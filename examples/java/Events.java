import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import javax.jms.JMSException;
import javax.jms.Message;

/** One line of JSON per thing that happened to a message; each line is with the kernel before the next step. */
final class Events {
    private final String client;
    private final String destination;
    private final PrintStream lines;

    Events(String file, String client, String destination) throws IOException {
        this.client = client;
        this.destination = destination;
        this.lines = new PrintStream(new FileOutputStream(file), true, StandardCharsets.UTF_8);
    }

    void sent(Message message) throws JMSException {
        write("sent", message);
    }

    void received(Message message) throws JMSException {
        write("received", message);
    }

    void acknowledged(Message message) throws JMSException {
        write("acknowledged", message);
    }

    private void write(String event, Message message) throws JMSException {
        lines.println(String.format(
                "{\"time_ms\": %d, \"event\": \"%s\", \"client\": \"%s\", \"destination\": \"%s\", "
                        + "\"message_id\": \"%s\", \"redelivered\": %b}",
                System.currentTimeMillis(), event, client, destination,
                message.getJMSMessageID(), message.getJMSRedelivered()));
    }
}
