package poolwright.driver;

import com.google.gson.JsonElement;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** The parameters of a phase. A driver first names those that it knows, so that a misspelt one is refused. */
public final class Parameters {
    private final Map<String, JsonElement> values;

    public Parameters(Map<String, JsonElement> values) {
        this.values = new TreeMap<>(values);
    }

    /** Refuses every parameter that is not in {@code known}. */
    public void only(Set<String> known) {
        Set<String> unknown = new TreeSet<>(values.keySet());
        unknown.removeAll(known);
        if (!unknown.isEmpty()) {
            throw new Failure("unknown parameter " + unknown + "; expected one of " + new TreeSet<>(known));
        }
    }

    /** Returns all parameters with this prefix as text, without the prefix. */
    public Map<String, String> beginning(String prefix) {
        Map<String, String> found = new TreeMap<>();
        values.forEach((name, value) -> {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), value.getAsString());
            }
        });
        return found;
    }

    public String text(String name, String otherwise) {
        return values.containsKey(name) ? values.get(name).getAsString() : otherwise;
    }

    public String oneOf(String name, String otherwise, String... allowed) {
        String value = text(name, otherwise);
        if (!Arrays.asList(allowed).contains(value)) {
            throw new Failure(name + " must be one of " + String.join(", ", allowed) + ", not '" + value + "'");
        }
        return value;
    }

    public boolean flag(String name, boolean otherwise) {
        return Boolean.parseBoolean(oneOf(name, Boolean.toString(otherwise), "true", "false"));
    }

    public double number(String name, double otherwise) {
        return parse(name, text(name, Double.toString(otherwise)), "a number");
    }

    /** Returns a non-negative integer. */
    public long count(String name, long otherwise) {
        double value = parse(name, text(name, Long.toString(otherwise)), "an integer");
        if (value != Math.rint(value) || value < 0) {
            throw new Failure(name + " must be a non-negative integer, not " + value);
        }
        return (long) value;
    }

    /** Returns bytes: a number, optionally with K, M or G as in ZFS. */
    public long size(String name, String otherwise) {
        return Sizes.parse(name, text(name, otherwise));
    }

    private static double parse(String name, String value, String wanted) {
        try {
            return Double.parseDouble(value);
        } catch (NumberFormatException error) {
            throw new Failure(name + " must be " + wanted + ", not '" + value + "'");
        }
    }
}
