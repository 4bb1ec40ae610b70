"""All data that goes from one process to another: one module for each form."""
