import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/**
 * The real ActiveMQ broker with KahaDB, set up as Debian's activemq.xml does it: no JMX, and all else by default.
 *
 * <p>Arguments: the folder for data, whether queues store and dispatch at the same time (the default: true), which is the
 * one setting that the comparison varies, the bytes of messages that memory may hold, which is the same for all brokers
 * there, and the URIs of the listeners.
 */
public final class KahaDbBroker {
    private KahaDbBroker() {}

    public static void main(String[] arguments) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new File(arguments[0], "kahadb"));
        store.setConcurrentStoreAndDispatchQueues(Boolean.parseBoolean(arguments[1]));
        BrokerService broker = new BrokerService();
        broker.setBrokerName("localhost");
        broker.setUseJmx(false);
        broker.setDataDirectory(arguments[0]);
        broker.setPersistenceAdapter(store);
        broker.getSystemUsage().getMemoryUsage().setLimit(Long.parseLong(arguments[2]));
        for (int i = 3; i < arguments.length; i++) {
            broker.addConnector(arguments[i]);
        }
        broker.start();
        broker.waitUntilStarted();
        List<String> addresses = new ArrayList<>();
        for (TransportConnector connector : broker.getTransportConnectors()) {
            addresses.add(connector.getConnectUri().toString());
        }
        System.out.println("activemq ready: " + String.join(", ", addresses));
        broker.waitUntilStopped();
    }
}
