import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.JMSException;
import org.apache.activemq.command.ActiveMQMapMessage;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQStreamMessage;

/** Prints what the real client makes of each value when read as each type: where, written, read, outcome. */
public final class Conversions {
    private static final List<String> TYPES =
            List.of("Boolean", "Byte", "Short", "Char", "Int", "Long", "Float", "Double", "String");

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Conversions() {}

    /** Each argument is one more String to read as everything. */
    public static void main(String[] texts) throws JMSException {
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("boolean", true);
        values.put("byte", (byte) 5);
        values.put("short", (short) 5);
        values.put("char", '5');
        values.put("int", 5);
        values.put("long", 5L);
        values.put("float", 0.1f);
        values.put("double", 1.5E300);
        values.put("bytes", new byte[] {5});
        for (String text : texts) {
            values.put("string " + text, text);
        }
        for (Map.Entry<String, Object> value : values.entrySet()) {
            for (String type : TYPES) {
                readFromEach(value.getKey(), value.getValue(), type);
            }
        }
    }

    private static void readFromEach(String name, Object value, String type) throws JMSException {
        ActiveMQMapMessage map = new ActiveMQMapMessage();
        map.setObject("x", value);
        print("map", name, type, map, "get" + type, "x");
        ActiveMQStreamMessage stream = new ActiveMQStreamMessage();
        stream.writeObject(value);
        stream.reset();
        print("stream", name, type, stream, "read" + type);
        if (!(value instanceof byte[] || value instanceof Character) && !type.equals("Char")) {
            ActiveMQMessage message = new ActiveMQMessage();
            message.setObjectProperty("x", value);
            print("property", name, type, message, "get" + type + "Property", "x");
        }
    }

    private static void print(String where, String name, String type, Object message, String getter, Object... names) {
        Class<?>[] parameters = names.length == 0 ? new Class<?>[0] : new Class<?>[] {String.class};
        String outcome;
        try {
            outcome = String.valueOf(message.getClass().getMethod(getter, parameters).invoke(message, names));
        } catch (InvocationTargetException error) {
            outcome = error.getCause().getClass().getSimpleName();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
        OUT.println(String.join("\t", where, name, type.toLowerCase(), outcome));
    }
}
