"""The only room of the runtime that imports Ray. Other rooms make, call and find processes through `door`."""
