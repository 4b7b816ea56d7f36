import java.util.ArrayList;
import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;

/** The real ActiveMQ broker, in memory, on the listener URIs given; the yardstick for the suite itself. */
public final class ActiveMqBroker {
    private ActiveMqBroker() {}

    public static void main(String[] listeners) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("yardstick");
        broker.setPersistent(false);
        broker.setUseJmx(false);
        for (String listener : listeners) {
            broker.addConnector(listener);
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
