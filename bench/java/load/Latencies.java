import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;

/** How long after its planned time each thing was done. */
final class Latencies {
    private final Schedule schedule;
    private final long[] nanos;
    private final AtomicInteger count = new AtomicInteger();

    /** Without a schedule nothing is noted. */
    Latencies(Schedule schedule, int capacity) {
        this.schedule = schedule;
        nanos = new long[schedule == null ? 0 : capacity];
    }

    /** To be called when the thing with this number is done; below zero it is none of ours. */
    void note(int number) {
        if (schedule != null && number >= 0) {
            nanos[count.getAndIncrement()] = System.nanoTime() - schedule.plannedAt(number);
        }
    }

    int count() {
        return count.get();
    }

    /** In milliseconds, as JSON. */
    String summary() {
        if (count.get() == 0) {
            return "{}";
        }
        long[] sorted = Arrays.copyOf(nanos, count.get());
        Arrays.sort(sorted);
        return String.format(
                "{\"count\": %d, \"p50\": %s, \"p99\": %s, \"p99.9\": %s, \"max\": %s}",
                sorted.length, at(sorted, 0.5), at(sorted, 0.99), at(sorted, 0.999), at(sorted, 1));
    }

    private static String at(long[] sorted, double share) {
        int place = (int) Math.ceil(sorted.length * share) - 1;
        return Double.toString(sorted[Math.max(0, place)] / 1e6);
    }
}
