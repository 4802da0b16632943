"""`forerun bench`: how fast a running gateway answers, and what speculation brings, seen through its REST API."""
