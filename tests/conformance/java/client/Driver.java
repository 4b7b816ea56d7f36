import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.transaction.xa.XAException;

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

    private final Handles handles = new Handles();

    private Driver() {
        Client client = new Client(handles);
        XaClient xa = new XaClient(handles);
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
        operations.put("forward", client::forward);
        operations.put("heard", client::heard);
        operations.put("waiting", client::waiting);
        operations.put("acknowledge", client::acknowledge);
        operations.put("commit", client::commit);
        operations.put("rollback", client::rollback);
        operations.put("recover", client::recover);
        operations.put("unsubscribe", client::unsubscribe);
        operations.put("browse", client::browse);
        operations.put("temporary_queue", client::temporaryQueue);
        operations.put("temporary_topic", client::temporaryTopic);
        operations.put("delete_temporary", client::deleteTemporary);
        operations.put("clean_up", client::cleanUp);
        operations.put("destroy_destination", client::destroyDestination);
        operations.put("redelivery_policy", client::redeliveryPolicy);
        operations.put("advisory_topic", client::advisoryTopic);
        operations.put("xa_session", xa::session);
        operations.put("xa_start", xa::start);
        operations.put("xa_end", xa::end);
        operations.put("xa_prepare", xa::prepare);
        operations.put("xa_commit", xa::commit);
        operations.put("xa_rollback", xa::rollback);
        operations.put("xa_forget", xa::forget);
        operations.put("xa_recover", xa::recover);
        operations.put("xa_is_same_resource", xa::isSameResource);
        operations.put("churn", client::churn);
        operations.put("reset", client::reset);
        operations.put("begin", this::begin);
        operations.put("outcome", this::outcome);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Driver driver = new Driver();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(Json.write(driver.answer(line)));
        }
        System.exit(0);
    }

    private Map<String, Object> answer(String line) {
        return answer(Request.parse(line));
    }

    private Map<String, Object> answer(Request request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            Operation operation = operations.get(request.text("op"));
            if (operation == null) {
                throw new IllegalArgumentException("no such operation: " + request.text("op"));
            }
            answer.put("result", operation.run(request));
        } catch (Exception problem) {
            problem.printStackTrace();
            answer.put("error", describe(problem));
        }
        return answer;
    }

    private static Map<String, Object> describe(Exception problem) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("class", problem.getClass().getName());
        result.put("message", String.valueOf(problem.getMessage()));
        result.put("code", problem instanceof XAException xa ? xa.errorCode : null);
        return result;
    }

    /** Starts another request in a thread of its own; "outcome" tells later how it went. */
    private Object begin(Request request) {
        CompletableFuture<Map<String, Object>> future = new CompletableFuture<>();
        Thread thread = new Thread(() -> future.complete(answer(request.part("request"))), "background request");
        thread.setDaemon(true);
        thread.start();
        return handles.keep(future);
    }

    /** The answer of a request that was begun, or null if it takes longer than timeout_ms. */
    private Object outcome(Request request) throws Exception {
        try {
            return handles.get(CompletableFuture.class, request.handle("begun"))
                .get(request.number("timeout_ms"), TimeUnit.MILLISECONDS);
        } catch (TimeoutException stillBusy) {
            return null;
        }
    }
}
