import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** Java objects that Python knows by number. */
final class Handles {
    private final Map<Long, Object> objects = new ConcurrentHashMap<>();
    private final AtomicLong last = new AtomicLong();

    long keep(Object object) {
        long handle = last.incrementAndGet();
        objects.put(handle, object);
        return handle;
    }

    <T> T get(Class<T> type, long handle) {
        return type.cast(objects.get(handle));
    }

    List<Object> all() {
        return List.copyOf(objects.values());
    }

    void forgetAll() {
        objects.clear();
    }
}
