package poolwright.driver;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** The main method of a driver: reads the specification, runs the phase, and exits as documented in docs/lab.md. */
public final class Driver {
    /** One phase of the work. */
    @FunctionalInterface
    public interface Phase {
        void run(Spec spec, Report report) throws Exception;
    }

    private Driver() {}

    /** Runs a phase and exits: 0 for success, 1 for a failure with one sentence on stderr. */
    public static void main(Phase phase) {
        // Databases and their libraries may print to System.out, but stdout carries the protocol.
        PrintStream lab = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        int status = 1;
        try {
            phase.run(Spec.read(new InputStreamReader(System.in, StandardCharsets.UTF_8)), new Report(lab));
            status = 0;
        } catch (Failure failure) {
            System.err.println(failure.getMessage());
        } catch (Throwable unforeseen) {
            // A defect of the driver or the database: the trial's log gets the stack trace.
            unforeseen.printStackTrace();
            System.err.println("the driver failed: " + unforeseen + " (stack trace above)");
        }
        // A database may have left threads running, which would keep the process alive.
        System.exit(status);
    }
}
