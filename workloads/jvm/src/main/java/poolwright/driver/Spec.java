package poolwright.driver;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.io.Reader;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;

/**
 * What the lab asks of a driver: one phase of one trial.
 *
 * @param phase the driver's own word for the work
 * @param parameters of the study and its factors
 * @param paths the datasets by role, mounted
 * @param scratch of this trial, kept over its phases
 * @param cache of all runs of the campaign, for inputs that take long to make
 * @param tools what scripts/lab/fetch.sh brought
 * @param seed the same for all cases that are compared
 */
public record Spec(
        String phase, Parameters parameters, Map<String, Path> paths, Path scratch, Path cache, Path tools, long seed) {
    private static final int PROTOCOL = 1;

    /** Reads the one JSON object that the lab hands over. */
    public static Spec read(Reader in) {
        try {
            return of(JsonParser.parseReader(in).getAsJsonObject());
        } catch (JsonParseException | IllegalStateException | UnsupportedOperationException error) {
            throw new Failure("stdin does not hold the object that docs/lab.md says", error);
        }
    }

    private static Spec of(JsonObject json) {
        int protocol = member(json, "protocol").getAsInt();
        if (protocol != PROTOCOL) {
            throw new Failure("this driver speaks protocol " + PROTOCOL + ", not " + protocol);
        }
        Map<String, Path> paths = new TreeMap<>();
        member(json, "paths").getAsJsonObject().asMap().forEach((role, path) -> paths.put(role, Path.of(path.getAsString())));
        return new Spec(
                member(json, "phase").getAsString(),
                new Parameters(member(json, "parameters").getAsJsonObject().asMap()),
                paths,
                Path.of(member(json, "scratch").getAsString()),
                Path.of(member(json, "cache").getAsString()),
                Path.of(member(json, "tools").getAsString()),
                member(json, "seed").getAsLong());
    }

    private static JsonElement member(JsonObject json, String name) {
        JsonElement value = json.get(name);
        if (value == null) {
            throw new Failure("the specification on stdin has no '" + name + "'");
        }
        return value;
    }

    /** The mounted dataset of a role that the driver cannot do without. */
    public Path path(String role) {
        Path path = paths.get(role);
        if (path == null) {
            throw new Failure("this driver needs a dataset of the role '" + role + "'; the campaign has " + paths.keySet());
        }
        return path;
    }
}
