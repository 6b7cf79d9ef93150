"""What a person sees: the command line and the Textual app, both readers of a lab's ledger."""
