import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.Topic;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnection;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.command.ActiveMQQueue;

/** Lists, and at the end consumes, everything that the broker holds, while nobody else works. */
final class Inspector {
    private static final long ARRIVAL_MS = 20_000;
    private static final int BATCH = 50;

    private final Load load;
    private int lastMark;

    Inspector(Load load) {
        this.load = load;
    }

    /** "recovered UNIT" for each prepared transaction, "at PLACE ID" for each message, in order. */
    void check() throws Exception {
        try (Resource resource = new Resource(load)) {
            for (Xid xid : XaTransactions.recover(resource.xa)) {
                load.journal().line("recovered " + XaTransactions.unitOf(xid));
            }
        }
        try (Client client = new Client(load.url(), null)) {
            for (String queue : Places.QUEUES) {
                browse(client.plain, queue);
            }
            createSubscriptions(); // in the first round; later they are there
            String mark = mark(client, Places.TOPIC);
            for (String subscription : Places.SUBSCRIPTIONS) {
                list(subscription, mark);
            }
        }
    }

    /**
     * The client's browser looks for a message and then for the end, so that it misses what comes with the end in
     * between; that does not happen twice in a row.
     */
    private void browse(Session session, String queue) throws JMSException {
        List<String> ids = browseOnce(session, queue);
        for (List<String> before = null; !ids.equals(before); ) {
            before = ids;
            ids = browseOnce(session, queue);
        }
        for (String id : ids) {
            load.journal().line("at " + queue + " " + id);
        }
        load.backlog().set(queue, ids.size());
    }

    private static List<String> browseOnce(Session session, String queue) throws JMSException {
        List<String> ids = new ArrayList<>();
        QueueBrowser browser = session.createBrowser(new ActiveMQQueue(queue));
        for (Enumeration<?> found = browser.getEnumeration(); found.hasMoreElements(); ) {
            ids.add(Texts.idOf((Message) found.nextElement()));
        }
        browser.close();
        return ids;
    }

    /** Sends a message to recognise the end by. */
    private String mark(Client client, String destination) throws JMSException {
        String id = "mark-" + ++lastMark;
        String text = id + "|0|";
        load.journal().line("try send " + id + new Effects().send(destination, id));
        client.producer.send(Places.destination(destination), client.plain.createTextMessage(text));
        load.journal().line("done " + id);
        return id;
    }

    private void createSubscriptions() throws JMSException {
        for (String subscription : Places.SUBSCRIPTIONS) {
            try (Client client = new Client(load.url(), subscription)) {
                client.subscriber(subscription);
            }
        }
    }

    /** Receives everything up to the *mark* in a transaction that is given up, so nothing changes. */
    private void list(String subscription, String mark) throws JMSException {
        int count = 0;
        try (Client client = new Client(load.url(), subscription)) {
            MessageConsumer consumer = client.subscriber(subscription);
            for (String id = ""; !id.equals(mark); count++) {
                Message message = consumer.receive(ARRIVAL_MS);
                if (message == null) {
                    throw new IllegalStateException(mark + " did not come to " + subscription);
                }
                id = Texts.idOf(message);
                load.journal().line("at " + subscription + " " + id);
            }
        }
        load.backlog().set(subscription, count);
    }

    /** Commits what is prepared and consumes everything, the *scheduled* messages included. */
    void drain(List<String> scheduled) throws Exception {
        try (Resource resource = new Resource(load)) {
            XaTransactions transactions = new XaTransactions(load.journal());
            for (Xid xid : XaTransactions.recover(resource.xa)) {
                transactions.decide(resource.xa, xid, true);
            }
        }
        for (String queue : Places.QUEUES) {
            try (Client client = new Client(load.url(), null)) {
                MessageConsumer consumer = client.session.createConsumer(new ActiveMQQueue(queue));
                Set<String> wanted = new HashSet<>(queue.equals(Places.LATER) ? scheduled : List.of());
                consume(client, consumer, queue, wanted);
            }
        }
        for (String subscription : Places.SUBSCRIPTIONS) {
            try (Client client = new Client(load.url(), subscription)) {
                consume(client, client.subscriber(subscription), subscription, new HashSet<>());
            }
        }
    }

    private void consume(Client client, MessageConsumer consumer, String place, Set<String> wanted) throws Exception {
        take(client, consumer, place, wanted);
        try (Client other = new Client(load.url(), null)) {
            wanted.add(mark(other, Places.SUBSCRIPTIONS.contains(place) ? Places.TOPIC : place));
        }
        take(client, consumer, place, wanted);
    }

    /** Consumes until all *wanted* messages came. */
    private void take(Client client, MessageConsumer consumer, String place, Set<String> wanted) throws Exception {
        Effects effects = new Effects();
        String unit = "drain-" + place + "#";
        for (int count = 0; !wanted.isEmpty(); ) {
            Message message = consumer.receive(ARRIVAL_MS);
            if (message == null) {
                load.journal().line("problem drain " + place + " never got " + wanted);
                wanted.clear();
            } else {
                String id = Texts.idOf(message);
                load.journal().saw("drain", place, id);
                wanted.remove(id);
                effects.take(place, id);
                count++;
            }
            if (count % BATCH == 0 || wanted.isEmpty()) {
                String name = unit + ++lastMark;
                load.journal().line("try tx " + name + effects);
                client.session.commit();
                load.journal().line("done " + name);
                effects = new Effects();
            }
        }
    }

    /** A connection with a transacted session to receive in, and a plain one to browse and send in. */
    private static final class Client implements AutoCloseable {
        final ActiveMQConnection connection;
        final Session session;
        final Session plain;
        final MessageProducer producer;

        Client(String url, String clientId) throws JMSException {
            connection = (ActiveMQConnection) new ActiveMQConnectionFactory(url).createConnection();
            if (clientId != null) {
                connection.setClientID(clientId);
            }
            connection.start();
            session = connection.createSession(true, Session.SESSION_TRANSACTED);
            plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            producer = Worker.producer(plain);
        }

        MessageConsumer subscriber(String subscription) throws JMSException {
            return session.createDurableSubscriber((Topic) Places.destination(Places.TOPIC), subscription);
        }

        @Override
        public void close() throws JMSException {
            connection.close();
        }
    }

    private static final class Resource implements AutoCloseable {
        final XAResource xa;
        private final ActiveMQXAConnection connection;

        Resource(Load load) throws JMSException {
            connection = (ActiveMQXAConnection) new ActiveMQXAConnectionFactory(load.url()).createXAConnection();
            connection.start();
            XASession session = connection.createXASession();
            xa = session.getXAResource();
        }

        @Override
        public void close() throws JMSException {
            connection.close();
        }
    }
}
