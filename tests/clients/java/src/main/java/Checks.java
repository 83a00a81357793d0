import com.azure.cosmos.CosmosException;
import java.util.Objects;

/** Runs checks, prints a line for each, and counts. */
final class Checks {
    private int passed;
    private int failed;

    interface Check {
        void run() throws Exception;
    }

    interface Group {
        void run(Checks checks) throws Exception;
    }

    void run(String name, Check check) {
        try {
            check.run();
            passed++;
            System.out.println("ok      " + name);
        } catch (Exception | AssertionError error) {
            fail(name, error);
        }
    }

    /** Runs the checks of a class; if its preparation fails, that counts as a check. */
    void group(String name, Group group) {
        try {
            group.run(this);
        } catch (Exception | AssertionError error) {
            fail(name, error);
        }
    }

    int summarize() {
        System.out.println(passed + " passed, " + failed + " failed");
        return failed == 0 && passed > 0 ? 0 : 1;
    }

    private void fail(String name, Throwable error) {
        failed++;
        String text = error.toString();
        StackTraceElement where = null;
        for (StackTraceElement each : error.getStackTrace()) {
            if (each.getClassName().endsWith("Checks") && !each.getClassName().equals("Checks")) {
                where = each;
                break;
            }
        }
        System.out.println("FAILED  " + name + ": " + where + ": " + text.substring(0, Math.min(1500, text.length())));
    }

    static void isTrue(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void same(Object expected, Object actual, String what) {
        isTrue(Objects.equals(expected, actual), what + ": expected " + expected + ", got " + actual);
    }

    static void status(int expected, Check call) throws Exception {
        try {
            call.run();
        } catch (CosmosException error) {
            same(expected, error.getStatusCode(), "status (" + error.getShortMessage() + ")");
            return;
        }
        throw new AssertionError("expected " + expected + ", but the call succeeded");
    }
}
