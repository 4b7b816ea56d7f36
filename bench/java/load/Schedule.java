import java.util.concurrent.locks.LockSupport;

/**
 * When each thing is to be done, whether or not those before it are: its delay counts from there.
 *
 * <p>A sender that waited for a slow broker and then measured from its late send would hide what users feel.
 */
final class Schedule {
    private final double intervalNanos;
    private volatile long startedAt;

    Schedule(int perSecond) {
        intervalNanos = 1e9 / perSecond;
    }

    void start() {
        startedAt = System.nanoTime();
    }

    long plannedAt(int number) {
        return startedAt + (long) (number * intervalNanos);
    }

    /** Wait for the time of {@code number}; returns at once if that is over. */
    void await(int number) {
        long planned = plannedAt(number);
        for (long left = planned - System.nanoTime(); left > 0; left = planned - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
