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
 * The specification that a driver gets from the lab: one phase of one trial.
 *
 * @param phase the name of the phase
 * @param parameters the parameters of the study and its factors
 * @param paths role → mount point of its dataset
 * @param scratch directory of this trial, kept between its phases
 * @param cache directory of all runs of the campaign, for inputs that take long to generate
 * @param tools directory to which scripts/lab/fetch.sh downloads
 * @param seed the seed, equal for all cases that are compared
 */
public record Spec(
        String phase, Parameters parameters, Map<String, Path> paths, Path scratch, Path cache, Path tools, long seed) {
    private static final int PROTOCOL = 1;

    /** Reads the JSON object from stdin. */
    public static Spec read(Reader in) {
        try {
            return of(JsonParser.parseReader(in).getAsJsonObject());
        } catch (JsonParseException | IllegalStateException | UnsupportedOperationException error) {
            throw new Failure("invalid specification on stdin (see docs/lab.md)", error);
        }
    }

    private static Spec of(JsonObject json) {
        int protocol = member(json, "protocol").getAsInt();
        if (protocol != PROTOCOL) {
            throw new Failure("this driver supports protocol " + PROTOCOL + ", not " + protocol);
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

    /** Returns the mount point of a role's dataset, which is required. */
    public Path path(String role) {
        Path path = paths.get(role);
        if (path == null) {
            throw new Failure("this driver requires a dataset with the role '" + role + "'; the campaign has " + paths.keySet());
        }
        return path;
    }
}
