package server

// Entities may need time zones (time.LoadLocation), and an image with nothing but the binary has no files of them. The
// zones take about 450 KB of the binary; files of the system are preferred.
import _ "time/tzdata"
