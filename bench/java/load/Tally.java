import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;

/** Which messages have arrived, how often, whether whole, and, where there is one consumer, in which order. */
final class Tally {
    private final Work work;
    private final String head;
    private final AtomicIntegerArray times;
    private final int[] last; // by source; only one consumer looks at it
    private final AtomicInteger arrived = new AtomicInteger();
    private final AtomicInteger distinct = new AtomicInteger();
    private final AtomicInteger foreign = new AtomicInteger();
    private final AtomicInteger disordered = new AtomicInteger();
    private volatile long finishedAt;
    private volatile boolean finished;

    Tally(Work work) {
        this.work = work;
        head = work.tag() + ":";
        times = new AtomicIntegerArray(work.consumers() == 0 ? 0 : work.sources() * work.messages());
        last = new int[work.sources()];
        Arrays.fill(last, -1);
        finishIfComplete(); // if there is nobody to receive
    }

    static String body(String tag, int source, int number, String padding) {
        String head = tag + ":" + source + ":" + number + ":";
        return head + padding.substring(head.length());
    }

    /** Note a message and return its number, or -1 if it is none of ours or not whole. */
    int add(String body) {
        arrived.incrementAndGet();
        if (!body.startsWith(head) || body.length() != work.bodyBytes()) {
            foreign.incrementAndGet();
            return -1;
        }
        int sourceEnd = body.indexOf(':', head.length());
        int numberEnd = body.indexOf(':', sourceEnd + 1);
        int source = Integer.parseInt(body, head.length(), sourceEnd, 10);
        int number = Integer.parseInt(body, sourceEnd + 1, numberEnd, 10);
        if (work.consumers() == 1) {
            if (number <= last[source]) {
                disordered.incrementAndGet();
            }
            last[source] = number;
        }
        if (times.getAndIncrement(source * work.messages() + number) == 0) {
            distinct.incrementAndGet();
        }
        return number;
    }

    /** To be called when a message has been settled, not only seen. */
    synchronized void finishIfComplete() {
        if (!finished && isComplete()) {
            finishedAt = System.nanoTime();
            finished = true;
        }
    }

    boolean isComplete() {
        return distinct.get() >= work.expected();
    }

    boolean isFinished() {
        return finished;
    }

    long finishedAt() {
        return finishedAt;
    }

    int arrived() {
        return arrived.get();
    }

    /** What is wrong, or an empty text: each message has arrived once, whole and in order. */
    String problem() {
        int repeated = arrived.get() - foreign.get() - distinct.get();
        int missing = work.expected() - distinct.get();
        if (missing == 0 && repeated == 0 && foreign.get() == 0 && disordered.get() == 0) {
            return "";
        }
        return String.format(
                "of %d messages %d missing, %d repeated, %d out of order, %d foreign or damaged",
                work.expected(), missing, repeated, disordered.get(), foreign.get());
    }
}
