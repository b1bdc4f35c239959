// Pages without live parts need no script; this one only takes the word "connecting" away.
document.getElementById("live")?.remove();
