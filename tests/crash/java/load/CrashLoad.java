import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import javax.jms.Session;
import org.apache.activemq.ActiveMQSession;

/**
 * Load on a broker that is killed again and again: producers, consumers, subscribers and transactions of the real
 * ActiveMQ client, and on standard output a line about each thing before it is tried and after it was answered.
 *
 * <p>Commands, one per line: "go N" opens round N, in which each worker works until its connection breaks; "park" tells
 * those that survive a broken connection to pause; "check" lists what the broker holds, once all pause; "drain ID..."
 * consumes everything, waiting for the scheduled messages named. Decides nothing: Python judges.
 *
 * <p>Arguments are the broker's port, a seed, and the names of workers to leave out.
 */
public final class CrashLoad {
    private static final long PARKING_TIMEOUT_MS = 60_000;

    private final Load load;
    private final Inspector inspector;

    private CrashLoad(Load load) {
        this.load = load;
        this.inspector = new Inspector(load);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        Load load = new Load(Integer.parseInt(arguments[0]), new Journal(out), new Gate(), new Backlog());
        CrashLoad program = new CrashLoad(load);
        int seed = Integer.parseInt(arguments[1]);
        List<String> leftOut = Arrays.asList(arguments).subList(2, arguments.length);
        for (Worker worker : workers(load)) {
            if (!leftOut.contains(worker.name)) {
                worker.start(new Random(31L * seed + worker.name.hashCode()));
            }
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            program.obey(line.split(" "));
        }
        Runtime.getRuntime().halt(0); // without waiting for clients whose broker is gone
    }

    private static List<Worker> workers(Load load) {
        List<Worker> workers = new ArrayList<>(List.of(
            new Sender(load, "p1", Places.ORDERS),
            new Sender(load, "p2", Places.ORDERS),
            new Sender(load, "p3", Places.DIRECT),
            new Sender(load, "p4", Places.XA_IN),
            new Sender(load, "news", Places.TOPIC),
            new Scheduler(load, "later"),
            new FailoverSender(load, "again"),
            new BatchSender(load, "batch"),
            new FailoverBatchSender(load, "batchagain")));
        workers.addAll(List.of(
            new Consumer(load, "c-orders", Places.ORDERS),
            new Consumer(load, "c-moved", Places.MOVED),
            new Consumer(load, "c-again", Places.AGAIN),
            new Consumer(load, "c-later", Places.LATER),
            new Consumer(load, "c-xa", Places.XA_OUT),
            new Acknowledger(load, "c-direct", Places.DIRECT, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE),
            new Acknowledger(load, "c-batch", Places.TX_A, Session.CLIENT_ACKNOWLEDGE),
            new Mover(load, "mover"),
            new Subscriber(load, Places.ALWAYS, true),
            new Subscriber(load, Places.SOMETIMES, false),
            new XaWorker(load, "xa")));
        return workers;
    }

    private void obey(String[] words) {
        try {
            switch (words[0]) {
                case "go" -> load.gate().open(Integer.parseInt(words[1]));
                case "park" -> load.gate().close();
                case "check" -> {
                    park();
                    inspector.check();
                    load.journal().line("checked");
                }
                case "drain" -> {
                    park();
                    inspector.drain(Arrays.asList(words).subList(1, words.length));
                    load.journal().line("drained");
                }
                default -> throw new IllegalArgumentException(words[0]);
            }
        } catch (Exception problem) {
            problem.printStackTrace();
            load.journal().line("problem " + words[0] + " " + Journal.oneLine(problem));
            load.journal().line(words[0] + " failed");
        }
    }

    private void park() throws InterruptedException {
        load.gate().close();
        List<String> busy = load.gate().awaitParked(PARKING_TIMEOUT_MS);
        if (!busy.isEmpty()) {
            throw new IllegalStateException("still busy: " + busy);
        }
    }
}
