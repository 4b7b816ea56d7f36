import java.io.PrintStream;

/** Standard output: lines in the order in which things happened. */
final class Journal {
    private final PrintStream out;

    Journal(PrintStream out) {
        this.out = out;
    }

    /** Written and flushed when this returns, so that a line about an attempt comes before any sign of its effect. */
    synchronized void line(String line) {
        out.println(line);
    }

    void saw(String worker, String place, String id) {
        line("saw " + worker + " " + place + " " + id + " " + System.currentTimeMillis());
    }

    static String oneLine(Throwable problem) {
        return problem.toString().replaceAll("[^ -~]+", " ");
    }
}
