import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The real ActiveMQ client under remote control: one JSON request per line on standard input, one JSON answer
 * per line on standard output, in order. Decides nothing and asserts nothing; that is the Python test's part.
 *
 * <pre>
 *   {"op": "connect", "url": "tcp://127.0.0.1:61616", "start": true}   ->   {"result": 1}
 *   {"op": "session", "connection": 1, "mode": 1}                      ->   {"result": 2}
 *   {"op": "nonsense"}                                                 ->   {"error": {"class": ...}}
 * </pre>
 */
public final class Driver {
    private interface Operation {
        Object run(Request request) throws Exception;
    }

    private final Map<String, Operation> operations = new LinkedHashMap<>();

    private Driver(Client client) {
        operations.put("connect", client::connect);
        operations.put("start", client::start);
        operations.put("stop", client::stop);
        operations.put("describe_connection", client::describeConnection);
        operations.put("close_connection", client::closeConnection);
        operations.put("session", client::session);
        operations.put("close_session", client::closeSession);
        operations.put("producer", client::producer);
        operations.put("close_producer", client::closeProducer);
        operations.put("send", client::send);
        operations.put("send_with_callback", client::sendWithCallback);
        operations.put("consumer", client::consumer);
        operations.put("close_consumer", client::closeConsumer);
        operations.put("receive", client::receive);
        operations.put("receive_many", client::receiveMany);
        operations.put("heard", client::heard);
        operations.put("waiting", client::waiting);
        operations.put("acknowledge", client::acknowledge);
        operations.put("temporary_queue", client::temporaryQueue);
        operations.put("churn", client::churn);
        operations.put("reset", client::reset);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Driver driver = new Driver(new Client());
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(Json.write(driver.answer(line)));
        }
        System.exit(0);
    }

    private Map<String, Object> answer(String line) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            Request request = Request.parse(line);
            Operation operation = operations.get(request.text("op"));
            if (operation == null) {
                throw new IllegalArgumentException("no such operation: " + request.text("op"));
            }
            answer.put("result", operation.run(request));
        } catch (Exception problem) {
            problem.printStackTrace();
            answer.put("error", Map.of("class", problem.getClass().getName(), "message", String.valueOf(problem.getMessage())));
        }
        return answer;
    }
}
