package poolwright.driver;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** The frame of a driver's main method: reads the specification, runs the phase, and ends as docs/lab.md says. */
public final class Driver {
    /** One phase of the work. */
    @FunctionalInterface
    public interface Phase {
        void run(Spec spec, Report report) throws Exception;
    }

    private Driver() {}

    /** Runs a phase and ends the process: 0 done, 1 failed with one sentence on stderr. */
    public static void main(Phase phase) {
        // Databases and their libraries print to System.out as they like; stdout is the lab's.
        PrintStream lab = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        int status = 1;
        try {
            phase.run(Spec.read(new InputStreamReader(System.in, StandardCharsets.UTF_8)), new Report(lab));
            status = 0;
        } catch (Failure failure) {
            System.err.println(failure.getMessage());
        } catch (Throwable unforeseen) {
            // A defect of the driver or the database: the trial's log gets all there is to know.
            unforeseen.printStackTrace();
            System.err.println("the driver failed: " + unforeseen + "; the trace above says where");
        }
        // A database may have left threads behind that would keep the process.
        System.exit(status);
    }
}
