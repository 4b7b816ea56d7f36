import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URI;
import javax.net.SocketFactory;
import org.apache.activemq.ActiveMQPrefetchPolicy;
import org.apache.activemq.ActiveMQXASslConnectionFactory;
import org.apache.activemq.RedeliveryPolicy;
import org.apache.activemq.command.ConsumerInfo;
import org.apache.activemq.command.ProducerInfo;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.openwire.OpenWireFormatFactory;
import org.apache.activemq.transport.InactivityMonitor;
import org.apache.activemq.transport.WireFormatNegotiator;
import org.apache.activemq.transport.failover.FailoverTransport;
import org.apache.activemq.transport.tcp.TcpTransport;

/** Prints `section property type value` for everything that a URI can set on the real client's objects. */
public class Defaults {
    public static void main(String[] arguments) throws Exception {
        print("connection", new ActiveMQXASslConnectionFactory());
        print("prefetch", new ActiveMQPrefetchPolicy());
        print("redelivery", new RedeliveryPolicy());
        print("failover", new FailoverTransport());
        print("wireFormat", new OpenWireFormatFactory());
        OpenWireFormat format = (OpenWireFormat) new OpenWireFormatFactory().createWireFormat();
        TcpTransport tcp = new TcpTransport(format, SocketFactory.getDefault(), new URI("tcp://localhost:1"), null);
        print("transport", tcp);
        print("transport", new InactivityMonitor(tcp, format));
        print("transport", new WireFormatNegotiator(tcp, format, 1));
        print("consumer", new ConsumerInfo());
        print("producer", new ProducerInfo());
        System.exit(0); // the failover transport has threads
    }

    private static void print(String section, Object bean) throws Exception {
        for (Method setter : bean.getClass().getMethods()) {
            if (setter.getName().startsWith("set") && setter.getParameterCount() == 1) {
                String name = setter.getName().substring(3);
                String shown = Character.toLowerCase(name.charAt(0)) + name.substring(1);
                String type = setter.getParameterTypes()[0].getSimpleName();
                System.out.println(section + "\t" + shown + "\t" + type + "\t" + value(bean, name));
            }
        }
    }

    /** A question mark for a property that cannot be read. */
    private static Object value(Object bean, String name) throws IllegalAccessException, InvocationTargetException {
        for (String prefix : new String[] {"get", "is"}) {
            try {
                return bean.getClass().getMethod(prefix + name).invoke(bean);
            } catch (NoSuchMethodException absent) {
                continue;
            }
        }
        return "?";
    }
}
