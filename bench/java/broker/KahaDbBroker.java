import java.io.File;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;

/**
 * The real ActiveMQ broker with KahaDB, set up as Debian's activemq.xml does it: no JMX, and all else by default.
 *
 * <p>Arguments: the listener's URI, the folder for data, and whether queues store and dispatch at the same time (the
 * default: true), which is the one setting that the comparison varies.
 */
public final class KahaDbBroker {
    private KahaDbBroker() {}

    public static void main(String[] arguments) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new File(arguments[1], "kahadb"));
        store.setConcurrentStoreAndDispatchQueues(Boolean.parseBoolean(arguments[2]));
        BrokerService broker = new BrokerService();
        broker.setBrokerName("localhost");
        broker.setUseJmx(false);
        broker.setDataDirectory(arguments[1]);
        broker.setPersistenceAdapter(store);
        broker.addConnector(arguments[0]);
        broker.start();
        broker.waitUntilStarted();
        System.out.println("activemq ready: " + broker.getTransportConnectors().get(0).getConnectUri());
        broker.waitUntilStopped();
    }
}
