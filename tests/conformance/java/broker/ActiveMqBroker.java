import java.util.ArrayList;
import java.util.List;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.TransportConnector;

/**
 * The real ActiveMQ broker, in memory; the yardstick for the suite itself.
 *
 * <p>Arguments are listener URIs, and settings that begin with "--": see {@link Settings}.
 */
public final class ActiveMqBroker {
    private ActiveMqBroker() {}

    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("yardstick");
        broker.setPersistent(false);
        broker.setUseJmx(false);
        Settings settings = new Settings(broker);
        for (String argument : arguments) {
            if (argument.startsWith("--")) {
                settings.apply(argument.substring(2));
            } else {
                broker.addConnector(argument);
            }
        }
        settings.finish();
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
