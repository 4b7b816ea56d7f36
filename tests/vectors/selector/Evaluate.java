import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import javax.jms.InvalidSelectorException;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.filter.BooleanExpression;
import org.apache.activemq.filter.NonCachedMessageEvaluationContext;
import org.apache.activemq.selector.SelectorParser;

/**
 * Asks ActiveMQ's own selector engine. Each line of standard input is a command, its fields separated by blanks and
 * every text in Base64: "message NAME TYPE VALUE …" adds a message, "clear" forgets them all, "selector TEXT"
 * answers with one letter per message (T true, F false, U unknown, E an exception) or with "invalid".
 */
public final class Evaluate {
    private static String text(String field) {
        // A Base64 text is never empty on the line: it starts with a dot.
        return new String(Base64.getDecoder().decode(field.substring(1)), StandardCharsets.UTF_8);
    }

    private static Object value(String type, String text) {
        switch (type) {
            case "boolean": return Boolean.valueOf(text);
            case "byte": return Byte.valueOf(text);
            case "short": return Short.valueOf(text);
            case "int": return Integer.valueOf(text);
            case "long": return Long.valueOf(text);
            case "float": return Float.valueOf(text);
            case "double": return Double.valueOf(text);
            case "char": return text.charAt(0);
            case "string": return text;
            case "bytes": return text.getBytes(StandardCharsets.UTF_8);
            case "list": return List.of(text);
            default: throw new IllegalArgumentException(type);
        }
    }

    private static ActiveMQMessage message(String[] fields) throws Exception {
        ActiveMQMessage message = new ActiveMQMessage();
        for (int i = 1; i < fields.length; i += 3) {
            message.setProperty(text(fields[i]), value(fields[i + 1], text(fields[i + 2])));
        }
        return message;
    }

    private static char answer(BooleanExpression expression, ActiveMQMessage message) {
        NonCachedMessageEvaluationContext context = new NonCachedMessageEvaluationContext();
        context.setMessageReference(message);
        Object value;
        try {
            value = expression.evaluate(context);
        } catch (Throwable error) {
            return 'E';
        }
        try {
            if (expression.matches(context) != (value == Boolean.TRUE)) {
                return '?';
            }
        } catch (Throwable error) {
            return 'E';
        }
        return value == null ? 'U' : value == Boolean.TRUE ? 'T' : 'F';
    }

    private static String answers(String selector, List<ActiveMQMessage> messages) {
        BooleanExpression expression;
        SelectorParser.clearCache(); // it confuses "x" with "convert_string_expressions:x"
        try {
            expression = SelectorParser.parse(selector);
        } catch (InvalidSelectorException error) {
            return "invalid";
        }
        StringBuilder letters = new StringBuilder();
        for (ActiveMQMessage message : messages) {
            letters.append(answer(expression, message));
        }
        return letters.toString();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        List<ActiveMQMessage> messages = new ArrayList<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split(" ");
            switch (fields[0]) {
                case "clear": messages.clear(); break;
                case "message": messages.add(message(fields)); break;
                case "selector": out.println(answers(text(fields[1]), messages)); break;
                default: throw new IllegalArgumentException(line);
            }
        }
        out.flush();
    }
}
