"""All that crosses from one process to another: one module for one form."""
