//! Counts checks and prints a line for each.

#[derive(Default)]
pub struct Checks {
    passed: u32,
    failed: u32,
}

impl Checks {
    pub fn is(&mut self, what: &str, holds: bool) {
        if holds {
            self.passed += 1;
            println!("ok      {what}");
        } else {
            self.failed += 1;
            println!("FAILED  {what}");
        }
    }

    pub fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, actual: T, expected: T) {
        let holds = actual == expected;
        self.is(what, holds);
        if !holds {
            println!("        {actual:?} instead of {expected:?}");
        }
    }

    pub fn error(&mut self, what: &str, error: &dyn std::error::Error) {
        self.is(what, false);
        println!("        {error}");
    }

    /// Prints the totals. True if no check has failed.
    pub fn finish(&self) -> bool {
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}
