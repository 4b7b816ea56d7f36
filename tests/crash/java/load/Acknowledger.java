import java.util.ArrayList;
import java.util.List;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Consumes without transactions; each acknowledgement waits for the broker's answer. */
final class Acknowledger extends Worker {
    private final String place;
    private final int mode;

    Acknowledger(Load load, String name, String place, int mode) {
        super(load, name);
        this.place = place;
        this.mode = mode;
    }

    @Override
    ActiveMQConnection newConnection() throws JMSException {
        return (ActiveMQConnection) new ActiveMQConnectionFactory(load.answeringUrl()).createConnection();
    }

    @Override
    void work() throws Exception {
        Session session = connection.createSession(false, mode);
        MessageConsumer consumer = session.createConsumer(Places.destination(place));
        while (isOpen()) {
            int wanted = mode == Session.CLIENT_ACKNOWLEDGE ? 1 + random.nextInt(8) : 1;
            List<String> ids = new ArrayList<>();
            Message last = null;
            for (Message message; ids.size() < wanted && (message = consumer.receive(30)) != null; last = message) {
                ids.add(see(message, place));
            }
            if (last != null) {
                acknowledge(last, ids);
            }
        }
    }

    /** One acknowledgement covers all *ids*, but nothing promises that it takes them together. */
    private void acknowledge(Message last, List<String> ids) throws Exception {
        if (ids.size() == 1) {
            attempt("ack", nextUnit(), new Effects().take(place, ids.get(0)), last::acknowledge);
            return;
        }
        List<String> rest = ids.subList(1, ids.size());
        attempt("ack", nextUnit(), new Effects().take(place, ids.get(0)), () -> acknowledge(last, rest));
    }
}
