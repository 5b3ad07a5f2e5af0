module pyrrha.example/oracle/template

go 1.25.0

require github.com/prometheus/prometheus v0.314.0
