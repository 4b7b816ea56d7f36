import java.util.List;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ActiveMQTopic;

/** Where messages can be: queues by their names, and durable subscriptions of the one topic. */
final class Places {
    static final String ORDERS = "orders";
    static final String DIRECT = "direct";
    static final String TX_A = "tx.a";
    static final String TX_B = "tx.b";
    static final String MOVED = "moved";
    static final String AGAIN = "again";
    static final String LATER = "later";
    static final String XA_IN = "xa.in";
    static final String XA_OUT = "xa.out";
    static final List<String> QUEUES = List.of(
        ORDERS, DIRECT, TX_A, TX_B, MOVED, AGAIN, LATER, XA_IN, XA_OUT, "ActiveMQ.DLQ");

    static final String TOPIC = "topic";
    static final String ALWAYS = "sub.always";
    static final String SOMETIMES = "sub.sometimes";
    static final List<String> SUBSCRIPTIONS = List.of(ALWAYS, SOMETIMES);

    private Places() {}

    static ActiveMQDestination destination(String name) {
        return name.equals(TOPIC) ? new ActiveMQTopic("news") : new ActiveMQQueue(name);
    }

    /** Where a message ends up that is sent to *name*: every subscription gets what goes to the topic. */
    static List<String> reached(String name) {
        return name.equals(TOPIC) ? SUBSCRIPTIONS : List.of(name);
    }
}
