"""The same update, executed in different ways; an update knows no equation but Adam's."""
