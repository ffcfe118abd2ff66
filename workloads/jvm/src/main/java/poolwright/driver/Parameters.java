package poolwright.driver;

import com.google.gson.JsonElement;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** The parameters of a phase. A driver names those it knows first, so that a misspelt one is not left out in silence. */
public final class Parameters {
    private final Map<String, JsonElement> values;

    public Parameters(Map<String, JsonElement> values) {
        this.values = new TreeMap<>(values);
    }

    /** Refuses every parameter that is none of these. */
    public void only(Set<String> known) {
        Set<String> unknown = new TreeSet<>(values.keySet());
        unknown.removeAll(known);
        if (!unknown.isEmpty()) {
            throw new Failure("unknown parameter " + unknown + "; known are " + new TreeSet<>(known));
        }
    }

    /** All parameters whose names begin so, as text and without the beginning. */
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
            throw new Failure(name + " takes " + String.join(", ", allowed) + ", not '" + value + "'");
        }
        return value;
    }

    public boolean flag(String name, boolean otherwise) {
        return Boolean.parseBoolean(oneOf(name, Boolean.toString(otherwise), "true", "false"));
    }

    public double number(String name, double otherwise) {
        return parse(name, text(name, Double.toString(otherwise)), "a number");
    }

    /** A whole number, not negative. */
    public long count(String name, long otherwise) {
        double value = parse(name, text(name, Long.toString(otherwise)), "a whole number");
        if (value != Math.rint(value) || value < 0) {
            throw new Failure(name + " takes a whole number from 0, not " + value);
        }
        return (long) value;
    }

    /** Bytes: a number, or one with K, M or G as ZFS writes sizes. */
    public long size(String name, String otherwise) {
        return Sizes.parse(name, text(name, otherwise));
    }

    private static double parse(String name, String value, String wanted) {
        try {
            return Double.parseDouble(value);
        } catch (NumberFormatException error) {
            throw new Failure(name + " takes " + wanted + ", not '" + value + "'");
        }
    }
}
