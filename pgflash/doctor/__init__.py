"""pgflash doctor: is the machine set up right for this server and its flash? What to change, why, and with which command."""
