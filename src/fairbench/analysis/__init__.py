"""From records to statements: pure functions of a study and its records."""
