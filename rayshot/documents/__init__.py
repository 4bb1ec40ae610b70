"""What people read of snapshots, under the command line and the page: documents of plain values, and words."""
