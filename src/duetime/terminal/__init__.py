"""What all commands share: settings, output, questions and error messages."""
