"""`make faults`: servers, disks, clocks and databases that fail, and what is left afterwards."""
