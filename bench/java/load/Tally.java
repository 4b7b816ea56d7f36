import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;

/** Which messages have arrived, how often, whether whole, where they should, and in the order of their sender. */
final class Tally {
    private final Work work;
    private final String head;
    private final AtomicIntegerArray times; // by copy and position
    private final int[][] last; // by consumer and source; each consumer looks at its own
    private final AtomicInteger arrived = new AtomicInteger();
    private final AtomicInteger distinct = new AtomicInteger();
    private final AtomicInteger foreign = new AtomicInteger();
    private final AtomicInteger disordered = new AtomicInteger();
    private volatile long finishedAt;
    private volatile boolean finished;

    Tally(Work work) {
        this.work = work;
        head = work.tag + ":";
        times = new AtomicIntegerArray(work.copies() * work.sources * work.messages);
        last = new int[work.consumers][work.queues > 1 ? 1 : work.sources];
        for (int[] bySource : last) {
            Arrays.fill(bySource, -1);
        }
        finishIfComplete(); // if there is nobody to receive
    }

    /** What a message's text begins with. */
    static String label(String tag, int source, int number) {
        return tag + ":" + source + ":" + number + ":";
    }

    /** The place of a message among all of its round, if all sources send in turn. */
    static int position(Work work, int source, int number) {
        return (number - work.first) * work.sources + source;
    }

    /** Note a message and return its position, or -1 if it is none of ours, not whole or not for this consumer. */
    int add(int consumer, String labelled, int bodyBytes) {
        arrived.incrementAndGet();
        if (!labelled.startsWith(head) || bodyBytes != work.bodyBytes) {
            foreign.incrementAndGet();
            return -1;
        }
        int sourceEnd = labelled.indexOf(':', head.length());
        int numberEnd = labelled.indexOf(':', sourceEnd + 1);
        int source = Integer.parseInt(labelled, head.length(), sourceEnd, 10);
        int number = Integer.parseInt(labelled, sourceEnd + 1, numberEnd, 10);
        int position = position(work, source, number);
        if (!isFor(consumer, source, number) || position < 0 || position >= work.sources * work.messages) {
            foreign.incrementAndGet();
            return -1;
        }
        noteOrder(last[consumer], work.queues > 1 ? 0 : source, number);
        int copy = work.topic ? consumer : 0;
        if (times.getAndIncrement(copy * work.sources * work.messages + position) == 0) {
            distinct.incrementAndGet();
        }
        return position;
    }

    private boolean isFor(int consumer, int source, int number) {
        return (work.queues <= 1 || source == consumer)
                && (work.selectors == 0 || number % work.selectors == consumer % work.selectors);
    }

    private void noteOrder(int[] bySource, int source, int number) {
        if (number <= bySource[source]) {
            disordered.incrementAndGet();
        }
        bySource[source] = number;
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

    /** What is wrong, or an empty text: each message has arrived once where it should, whole and in order. */
    String problem() {
        int repeated = arrived.get() - foreign.get() - distinct.get();
        int missing = work.expected() - distinct.get();
        if (missing == 0 && repeated == 0 && foreign.get() == 0 && disordered.get() == 0) {
            return "";
        }
        return String.format(
                "of %d messages %d missing, %d repeated, %d out of order, %d foreign, damaged or astray",
                work.expected(), missing, repeated, disordered.get(), foreign.get());
    }
}
