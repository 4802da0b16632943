"""`forerun up`: draft, target and gateway as child processes of one that watches them."""
