import java.util.List;
import java.util.Map;

/** One line of the driver's input. */
record Request(Map<String, Object> fields) {
    static Request parse(String line) {
        return new Request(asObject(Json.parse(line)));
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> asObject(Object json) {
        return (Map<String, Object>) json;
    }

    String text(String name) {
        return (String) fields.get(name);
    }

    long number(String name) {
        return (Long) fields.get(name);
    }

    long handle(String name) {
        return number(name);
    }

    Request part(String name) {
        return new Request(asObject(fields.get(name)));
    }

    boolean has(String name) {
        return fields.get(name) != null;
    }

    boolean flag(String name) {
        return (Boolean) fields.get(name);
    }

    List<?> list(String name) {
        return (List<?>) fields.get(name);
    }
}
