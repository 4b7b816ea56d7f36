import javax.jms.Connection;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQDestination;

/** Sends text messages: java Producer URL EVENTS_FILE NAME DESTINATION COUNT. */
public final class Producer {
    public static void main(String[] args) throws Exception {
        String url = args[0];
        String name = args[2];
        String destination = args[3];
        int count = Integer.parseInt(args[4]);
        Events events = new Events(args[1], name, destination);
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(
                ActiveMQDestination.createDestination(destination, ActiveMQDestination.QUEUE_TYPE));
        for (int number = 1; number <= count; number++) {
            TextMessage message = session.createTextMessage("number " + number + " from " + name);
            message.setIntProperty("number", number);
            producer.send(message);
            events.sent(message);
        }
        connection.close();
    }
}
