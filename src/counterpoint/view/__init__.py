"""The pages that show a Timeline and the results of a command, as one file or in a local app."""
