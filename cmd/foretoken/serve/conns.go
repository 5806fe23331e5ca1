package serve

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"
)

// maxConnections bounds the open connections. Beyond it, addresses that hold few take places from addresses that hold
// many.
const maxConnections = 512

// limits are the times that a connection may take in each of its phases. Tests shorten them.
type limits struct {
	header time.Duration // to send a request's header
	body   time.Duration // to send its body
	small  time.Duration // to take an answer of a few lines
	answer time.Duration // to take a text: pauses while the next pieces wait, all of them together
	idle   time.Duration // between two requests
}

var defaultLimits = limits{header: 10 * time.Second, body: 30 * time.Second, small: 5 * time.Second,
	answer: 30 * time.Second, idle: 2 * time.Minute}

// HTTP returns the server for connections from Listen. Every phase of its connections has a deadline.
func (s *Server) HTTP(errors *log.Logger) *http.Server {
	t := &s.limits
	return &http.Server{Handler: s, ErrorLog: errors, ReadHeaderTimeout: t.header, IdleTimeout: t.idle,
		ReadTimeout:                  t.header + t.body, // for what the server refuses itself; bodies set their own
		WriteTimeout:                 t.small,           // answers set their own
		MaxHeaderBytes:               64 << 10,
		DisableGeneralOptionsHandler: true, // it answers OPTIONS * under any name
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connection{}, c.(*conn).number)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			place := c.(*conn).place
			switch state {
			case http.StateActive:
				s.conns.waiting(place, false)
			case http.StateIdle:
				s.conns.waiting(place, true)
			case http.StateClosed, http.StateHijacked:
				s.conns.leave(place)
			}
		}}
}

// Listen bounds the connections of a listener and divides them among addresses.
func (s *Server) Listen(l net.Listener) net.Listener { return &listener{Listener: l, conns: s.conns} }

type listener struct {
	net.Listener
	conns  *shares
	number uint64 // of the last connection
}

// conn is a connection with a place.
type conn struct {
	net.Conn
	place  *place
	number uint64 // from 1
}

// connection is the key of a connection's number in the contexts of its requests.
type connection struct{}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p := l.conns.take(addressOf(c.RemoteAddr().String()), func() { c.Close() }); p != nil {
			l.number++ // http.Server accepts one at a time
			return &conn{c, p, l.number}, nil
		}
		c.Close()
	}
}

// CloseWrite lets a client read the answer to a request that it still sends.
func (c *conn) CloseWrite() error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.CloseWrite()
	}
	return nil
}
